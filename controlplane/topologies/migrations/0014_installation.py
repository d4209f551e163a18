from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topologies", "0013_replication_planners"),
    ]

    operations = [
        migrations.CreateModel(
            name="Installation",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("identity", models.CharField(help_text="in every plan in ZooKeeper", max_length=32)),
            ],
            options={"verbose_name": "installation id"},
        ),
        migrations.AddField(
            model_name="formertopology",
            name="foreign",
            field=models.BooleanField(
                default=False,
                help_text="found in ZooKeeper, of another database; kept until the topology of this name is deleted",
            ),
        ),
    ]
